// Out-of-place FP32 transpose, out[nx][ny] = in[ny][nx]^T, for sm_90. Full tiles only: nx%TX==0, ny%TY==0. -D knobs: TX TY NT R HL HS.
// Each thread moves NB blocks of 4x4 floats: four float4 loads, transposed in registers, float4 stores into a 16 B-XOR-swizzled tile
// (conflict-free both ways), float4 stores out. 1-D grid of (nx/TX)*(ny/TY) blocks; R picks the order in which tiles are issued:
//   R=0 along input rows; R=1 along OUTPUT rows (consecutive blocks write consecutive 256 B of the same 64 output rows);
//   R=100+G: G column tiles wide, walking down.   HL load hint: 0 plain, 6 L2::evict_last policy (+L1::no_allocate), 4 L1::no_allocate.
//   HS store hint: 0 plain, 1 st.cs, 5 L2::evict_first policy.
typedef unsigned long long u64;
__device__ __forceinline__ u64 pol_first(){u64 p;asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;":"=l"(p));return p;}
__device__ __forceinline__ u64 pol_last(){u64 p;asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;":"=l"(p));return p;}
__device__ __forceinline__ float4 ld(const float*p){
 float4 v;
#if HL==6
 asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p),"l"(pol_last()));
#elif HL==7
 asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p),"l"(pol_last()));
#elif HL==8
 asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.f32 {%0,%1,%2,%3},[%4],%5;":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p),"l"(pol_last()));
#elif HL==9
 {u64 q;asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.5;":"=l"(q));
 asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p),"l"(q));}
#elif HL==10
 asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3},[%4],%5;":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p),"l"(pol_first()));
#elif HL==4
 asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0,%1,%2,%3},[%4];":"=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w):"l"(p));
#else
 v=*(const float4*)p;
#endif
 return v;}
__device__ __forceinline__ void st(float*p,float4 v){
#if HS==1
 __stcs((float4*)p,v);
#elif HS==6
 asm volatile("st.global.L2::cache_hint.v4.f32 [%4],{%0,%1,%2,%3},%5;"::"f"(v.x),"f"(v.y),"f"(v.z),"f"(v.w),"l"(p),"l"(pol_last()):"memory");
#elif HS==7
 asm volatile("st.global.wt.v4.f32 [%4],{%0,%1,%2,%3};"::"f"(v.x),"f"(v.y),"f"(v.z),"f"(v.w),"l"(p):"memory");
#elif HS==8
 asm volatile("st.global.L1::no_allocate.v4.f32 [%4],{%0,%1,%2,%3};"::"f"(v.x),"f"(v.y),"f"(v.z),"f"(v.w),"l"(p):"memory");
#elif HS==5
 asm volatile("st.global.L2::cache_hint.v4.f32 [%4],{%0,%1,%2,%3},%5;"::"f"(v.x),"f"(v.y),"f"(v.z),"f"(v.w),"l"(p),"l"(pol_first()):"memory");
#else
 *(float4*)p=v;
#endif
}
extern "C" __global__ void __launch_bounds__(NT) transpose(float*__restrict__ o,const float*__restrict__ in,int nx,int ny){
 extern __shared__ __align__(16) float4 s[];
 constexpr int CQ=TX/4,RQ=TY/4,NB=CQ*RQ/NT; const int gx=nx/TX,gy=ny/TY,id=blockIdx.x; int bx,by;
 if(R==0){bx=id%gx;by=id/gx;} else if(R==1){by=id%gy;bx=id/gy;}

 else if(R>=300){constexpr int G=R-300;const int per=G*G,g=id/per,r=id%per,gd=gy/G;by=g%gd*G+r%G;bx=g/gd*G+r/G;}
 else if(R>=200){constexpr int H=R-200;const int half=gy*gx/H;by=(id/H+id%H*half)%gy;bx=(id/H+id%H*half)/gy;}
 else{constexpr int G=R>100?R-100:1;const int per=G*gy,g=id/per,r=id-g*per;bx=g*G+r%G;by=r/G;}
 const float*ip=in+(size_t)by*TY*nx+bx*TX;float*op=o+(size_t)bx*TX*ny+by*TY; float4 v[NB][4];
 #pragma unroll
 for(int n=0;n<NB;n++){const int e=threadIdx.x+n*NT,c=e%CQ,r=e/CQ;
  #pragma unroll
  for(int q=0;q<4;q++) v[n][q]=ld(ip+(size_t)(4*r+q)*nx+4*c);}
 #pragma unroll
 for(int n=0;n<NB;n++){const int e=threadIdx.x+n*NT,c=e%CQ,r=e/CQ;
  s[(4*c+0)*RQ+(r^(c&7))]=make_float4(v[n][0].x,v[n][1].x,v[n][2].x,v[n][3].x);
  s[(4*c+1)*RQ+(r^(c&7))]=make_float4(v[n][0].y,v[n][1].y,v[n][2].y,v[n][3].y);
  s[(4*c+2)*RQ+(r^(c&7))]=make_float4(v[n][0].z,v[n][1].z,v[n][2].z,v[n][3].z);
  s[(4*c+3)*RQ+(r^(c&7))]=make_float4(v[n][0].w,v[n][1].w,v[n][2].w,v[n][3].w);}
 __syncthreads();
 #pragma unroll
 for(int n=0;n<NB*4;n++){const int e=threadIdx.x+n*NT,r=e%RQ,c=e/RQ; st(op+(size_t)c*ny+4*r,s[c*RQ+(r^((c>>2)&7))]);}
}
extern "C" __global__ void copy4(float4*o,const float4*i,size_t n){const size_t k=blockIdx.x*(size_t)blockDim.x+threadIdx.x;if(k<n/4)o[k]=i[k];}
